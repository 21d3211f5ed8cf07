# Changed copies of sources take the place of the originals: -DDXGKIT_OVERLAY=FOLDER, where the copies lie under their own names
# (FOLDER/src/dxgk/...). scripts/mutate and scripts/planted_bugs.py write such folders. Each change in a copy asks the probe whether it happens
# in this run, so one build holds all changes.
# Tests are compiled as ever. The core is linked in front of them, so that its copies of inline functions, which have the changes, are the ones
# that run.
set(DXGKIT_OVERLAY "" CACHE PATH "Folder of changed sources; for scripts/mutate and scripts/planted_bugs.py only")
if(NOT DXGKIT_OVERLAY)
  return()
endif()

set(DXGKIT_PROBE ${CMAKE_CURRENT_LIST_DIR}/../scripts/mutation)
set(DXGKIT_OVERLAID dxgkit_gpuva dxgkit_vidmm dxgkit_vidsch dxgkit_vidpn dxgkit_port dxgkit_dxgk dxgkit_thunks)
add_library(dxgkit_probe STATIC ${DXGKIT_PROBE}/probe.cpp)
add_library(dxgkit_probe_listener OBJECT ${DXGKIT_PROBE}/listener.cpp)

function(dxgkit_overlaid_sources target)
  if(NOT target IN_LIST DXGKIT_OVERLAID)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(all)
  set(copies)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
    if(EXISTS ${DXGKIT_OVERLAY}/${name})
      list(APPEND copies ${DXGKIT_OVERLAY}/${name})
      list(APPEND all ${DXGKIT_OVERLAY}/${name})
      get_source_file_property(apart ${source} SKIP_UNITY_BUILD_INCLUSION)
      if(apart)
        set_source_files_properties(${DXGKIT_OVERLAY}/${name} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
      set_property(GLOBAL APPEND PROPERTY DXGKIT_OVERLAY_USED ${name})
    else()
      list(APPEND all ${source})
    endif()
  endforeach()
  # In the places of the originals, so that the same sources are compiled together with each other copies, too.
  set_property(TARGET ${target} PROPERTY SOURCES ${all})
  # Any source may include a changed header, and those that are compiled together have the same options. Else the other sources are compiled as
  # ever.
  set(options -include ${DXGKIT_PROBE}/probe.h -w -fmax-errors=0)
  file(GLOB_RECURSE headers ${DXGKIT_OVERLAY}/*.h)
  if(headers)
    target_include_directories(${target} BEFORE PRIVATE ${DXGKIT_OVERLAY}/src)
  endif()
  if(headers OR (copies AND DXGKIT_UNITY))
    target_compile_options(${target} PRIVATE ${options})
  else()
    set_source_files_properties(${copies} PROPERTIES COMPILE_OPTIONS "${options}")
  endif()
  target_link_libraries(${target} PUBLIC dxgkit_probe)
endfunction()

function(dxgkit_overlaid_test target)
  target_link_options(${target} PRIVATE LINKER:--allow-multiple-definition
    LINKER:--whole-archive $<TARGET_FILE:dxgkit_overlaid_core> LINKER:--no-whole-archive)
  target_link_libraries(${target} PRIVATE dxgkit_probe_listener dxgkit_thunks)
  add_dependencies(${target} dxgkit_overlaid_core)
endfunction()

# Called when every target of the core is there.
function(dxgkit_overlaid_core)
  set(objects)
  foreach(target ${DXGKIT_OVERLAID})
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  add_library(dxgkit_overlaid_core STATIC ${objects})
  set_target_properties(dxgkit_overlaid_core PROPERTIES LINKER_LANGUAGE CXX)

  get_property(used GLOBAL PROPERTY DXGKIT_OVERLAY_USED)
  file(GLOB_RECURSE copies RELATIVE ${DXGKIT_OVERLAY} ${DXGKIT_OVERLAY}/*.cpp)
  list(REMOVE_ITEM copies ${used})
  if(copies)
    message(FATAL_ERROR "No target of the core compiles these files of the overlay, so their changes could never happen: ${copies}")
  endif()
endfunction()
