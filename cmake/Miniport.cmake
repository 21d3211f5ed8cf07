# dxgkit_add_miniport(NAME SOURCES a.cpp b.c ... [OPTIONS -Dx ...] [IMPORTS Function ...]): builds a display miniport from one source in
# both forms, whatever compiler the rest uses (docs/adr/0002):
#   <build>/miniports/NAME.so    the ELF twin; path in DXGKIT_MINIPORT_NAME
#   <build>/miniports/NAME.sys   the PE form, as on Windows; path in DXGKIT_MINIPORT_NAME_SYS (cmake/MiniportPe.cmake)
# Target miniport_NAME makes both. IMPORTS names functions no kernel has, for tests.
#
# clang for x86_64-pc-windows-msvc-elf gives Microsoft record layout and calling convention; code for Windows is position-independent
# anyway. The driver sees abi/include and nothing of the host: no libc, no exceptions, no thread-local data, no global constructors.
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

# Objects of a miniport: dxgkit_miniport_objects(OUT NAME SUFFIX SOURCES ... FLAGS ... [AFTER command...]).
function(dxgkit_miniport_objects out name suffix)
  cmake_parse_arguments(ARG "" "" "SOURCES;FLAGS;AFTER" ${ARGN})
  set(objects)
  foreach(source ${ARG_SOURCES})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(GET path EXTENSION LAST_ONLY extension)
    if(extension STREQUAL ".c")
      set(compiler ${DXGKIT_MINIPORT_CC} -std=c11)
    else()
      set(compiler ${DXGKIT_MINIPORT_CXX} -std=c++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics)
    endif()
    cmake_path(GET path FILENAME file)
    string(MD5 hash ${path})
    string(SUBSTRING ${hash} 0 8 hash)
    set(object ${DXGKIT_MINIPORT_DIR}/${name}.dir/${file}.${hash}.${suffix})
    set(after)
    if(ARG_AFTER)
      set(after COMMAND ${ARG_AFTER} ${object})
    endif()
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${DXGKIT_MINIPORT_DIR}/${name}.dir
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${compiler} ${ARG_FLAGS} -MD -MF ${object}.d -MT ${object} -c ${path} -o ${object}
      ${after}
      DEPENDS ${path} ${DXGKIT_MINIPORT_RENAME}
      DEPFILE ${object}.d
      COMMENT "Building miniport object ${name}/${file} (${suffix})"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

function(dxgkit_add_miniport name)
  cmake_parse_arguments(ARG "" "" "SOURCES;OPTIONS;IMPORTS" ${ARGN})
  set(flags -O2 -g -ffreestanding -fms-extensions -fasynchronous-unwind-tables -Wall -Wextra -Werror
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
