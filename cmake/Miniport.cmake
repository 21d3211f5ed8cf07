# dxgkit_add_miniport(NAME SOURCES a.cpp b.c ... [OPTIONS -Dx ...] [IMPORTS Function ...]): builds a display miniport from one source in
# both forms, whatever compiler the rest uses (docs/adr/0002):
#   <build>/miniports/NAME.so    the ELF twin; path in DXGKIT_MINIPORT_NAME
#   <build>/miniports/NAME.sys   the PE form, as on Windows; path in DXGKIT_MINIPORT_NAME_SYS (cmake/MiniportPe.cmake)
# Target miniport_NAME makes both. IMPORTS names functions no kernel has, for tests.
#
# clang for x86_64-pc-windows-msvc-elf gives Microsoft record layout and calling convention; code for Windows is position-independent
# anyway. The driver sees abi/include and nothing of the host: no libc, no exceptions, no thread-local data, no global constructors.
#
# What sources written for Microsoft's compiler take for granted is on:
#   -fcheck-new  operator new of a driver returns null when pool is exhausted. C++ lets the compiler assume the opposite.
#   -fcommon     `int count;` in a header of several C files is one variable.
#   -ivfsoverlay `#include <Ntddk.h>` finds ntddk.h, and "Driver.h" finds driver.h: headers of the kernel, beside the sources, and in folders
#                that OPTIONS names with -I are found in any case (dxgkit_miniport_any_case).
#   the names of C++ functions have an @, which an ELF linker takes for a version; it is changed in the ELF twin (miniport_rename.sh).
find_program(DXGKIT_MINIPORT_CXX NAMES clang++-19 clang++ REQUIRED)
find_program(DXGKIT_MINIPORT_CC NAMES clang-19 clang REQUIRED)
find_program(DXGKIT_MINIPORT_LD NAMES ld.lld-19 ld.lld REQUIRED)
find_program(DXGKIT_MINIPORT_NM NAMES llvm-nm-19 llvm-nm REQUIRED)
find_program(DXGKIT_MINIPORT_OBJCOPY NAMES llvm-objcopy-19 llvm-objcopy REQUIRED)
set(DXGKIT_MINIPORT_RENAME ${CMAKE_CURRENT_LIST_DIR}/miniport_rename.sh)
set(DXGKIT_MINIPORT_DIR ${CMAKE_BINARY_DIR}/miniports)
# Where the headers are: beside this file's folder, so that it also works from another source tree.
get_filename_component(DXGKIT_MINIPORT_ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
if(NOT DXGKIT_MINIPORT_INCLUDE)  # installed, the package says where they are
  set(DXGKIT_MINIPORT_INCLUDE ${DXGKIT_MINIPORT_ROOT}/abi/include)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/MiniportPe.cmake)

# Writes <build>/miniports/NAME.dir/headers.yaml, an overlay file system of clang in which the headers of the folders named (and of
# subfolders of the first) have names without case. Two headers whose names differ in case only keep their own.
function(dxgkit_miniport_any_case out name first)
  set(roots)
  set(recurse GLOB_RECURSE)
  foreach(folder ${first} ${ARGN})
    file(${recurse} headers CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/*.h ${folder}/*.H ${folder}/*.hpp ${folder}/*.inl)
    set(recurse GLOB)
    string(TOLOWER "${headers}" lower)
    list(LENGTH headers alone)
    math(EXPR alone "${alone} - 1")
    set(contents)
    foreach(header ${headers})
      string(TOLOWER ${header} any)
      set(others ${lower})
      list(REMOVE_ITEM others ${any})
      list(LENGTH others count)
      if(count EQUAL alone)
        string(APPEND contents "    { 'name': '${header}', 'type': 'file', 'external-contents': '${folder}/${header}' },\n")
      endif()
    endforeach()
    if(contents)
      string(APPEND roots "  { 'name': '${folder}', 'type': 'directory', 'contents': [\n${contents}  ] },\n")
    endif()
  endforeach()
  set(overlay ${DXGKIT_MINIPORT_DIR}/${name}.dir/headers.yaml)
  # An unchanged one does not build the driver anew.
  file(CONFIGURE OUTPUT ${overlay} CONTENT "{ 'version': 0, 'case-sensitive': 'false', 'roots': [\n${roots}] }\n")
  set(${out} ${overlay} PARENT_SCOPE)
endfunction()

# Objects of a miniport: dxgkit_miniport_objects(OUT NAME SUFFIX SOURCES ... FLAGS ... [AFTER command...]).
function(dxgkit_miniport_objects out name suffix)
  cmake_parse_arguments(ARG "" "" "SOURCES;FLAGS;AFTER" ${ARGN})
  set(objects)
  foreach(source ${ARG_SOURCES})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(GET path EXTENSION LAST_ONLY extension)
    if(extension STREQUAL ".c")
      set(compiler ${DXGKIT_MINIPORT_CC} -std=c11 -fcommon)
    else()
      set(compiler ${DXGKIT_MINIPORT_CXX} -std=c++20 -fcheck-new -fno-exceptions -fno-rtti -fno-threadsafe-statics)
    endif()
    cmake_path(GET path FILENAME file)
    # A library has the names of its objects in it, so they do not depend on where the sources lie.
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${DXGKIT_MINIPORT_ROOT} OUTPUT_VARIABLE place)
    string(MD5 hash ${place})
    string(SUBSTRING ${hash} 0 8 hash)
    set(object ${DXGKIT_MINIPORT_DIR}/${name}.dir/${file}.${hash}.${suffix})
    # In names of anonymous namespaces clang has a hash of the source's name as it is given here.
    set(given ${path})
    if(DXGKIT_PACKAGED)
      cmake_path(RELATIVE_PATH given BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    endif()
    set(after)
    if(ARG_AFTER)
      set(after COMMAND ${ARG_AFTER} ${object})
    endif()
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${DXGKIT_MINIPORT_DIR}/${name}.dir
      # ccache keeps no object made with an overlay unless it is told that the overlay only says where headers are.
      COMMAND ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=ivfsoverlay ${CMAKE_CXX_COMPILER_LAUNCHER} ${compiler} ${ARG_FLAGS} ${DXGKIT_PREFIX_MAP} -MD -MF ${object}.d -MT ${object} -c ${given} -o ${object}
      ${after}
      DEPENDS ${path} ${DXGKIT_MINIPORT_RENAME}
      DEPFILE ${object}.d
      WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
      COMMENT "Building miniport object ${name}/${file} (${suffix})"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

function(dxgkit_add_miniport name)
  cmake_parse_arguments(ARG "" "" "SOURCES;OPTIONS;IMPORTS" ${ARGN})
  set(folders)
  foreach(source ${ARG_SOURCES})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(GET path PARENT_PATH folder)
    list(APPEND folders ${folder})
  endforeach()
  foreach(option ${ARG_OPTIONS})
    if(option MATCHES "^-I(.+)")
      cmake_path(ABSOLUTE_PATH CMAKE_MATCH_1 BASE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} NORMALIZE OUTPUT_VARIABLE folder)
      list(APPEND folders ${folder})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  list(REMOVE_ITEM folders ${DXGKIT_MINIPORT_INCLUDE})
  dxgkit_miniport_any_case(overlay ${name} ${DXGKIT_MINIPORT_INCLUDE} ${folders})
  set(flags -O2 -g -ffreestanding -fms-extensions -fasynchronous-unwind-tables -Wall -Wextra -Werror
    -ivfsoverlay ${overlay} -Wno-nonportable-include-path
    -isystem ${DXGKIT_MINIPORT_INCLUDE} -I${DXGKIT_MINIPORT_ROOT} ${ARG_OPTIONS})
  dxgkit_miniport_objects(objects ${name} o SOURCES ${ARG_SOURCES}
    FLAGS -target x86_64-pc-windows-msvc-elf -fno-stack-protector ${flags}
    AFTER ${DXGKIT_MINIPORT_RENAME} ${DXGKIT_MINIPORT_NM} ${DXGKIT_MINIPORT_OBJCOPY})
  set(image ${DXGKIT_MINIPORT_DIR}/${name}.so)
  add_custom_command(OUTPUT ${image}
    COMMAND ${DXGKIT_MINIPORT_LD} -shared -Bsymbolic -z now -z noexecstack -z separate-code --hash-style=both -o ${image} ${objects}
    DEPENDS ${objects}
    COMMENT "Linking miniport ${name}.so"
    VERBATIM)
  dxgkit_miniport_pe(pe_image ${name} SOURCES ${ARG_SOURCES} FLAGS ${flags} IMPORTS ${ARG_IMPORTS})
  add_custom_target(miniport_${name} ALL DEPENDS ${image} ${pe_image})
  set(DXGKIT_MINIPORT_${name} ${image} CACHE INTERNAL "")
  set(DXGKIT_MINIPORT_${name}_SYS ${pe_image} CACHE INTERNAL "")
endfunction()
