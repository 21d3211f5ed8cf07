# dxgkit_add_miniport(NAME SOURCES a.cpp b.c ... [OPTIONS -Dx ...]): builds a display miniport as the ELF twin of a .sys,
# <build>/miniports/NAME.so, whatever compiler the rest uses (docs/adr/0002). Target miniport_NAME; DXGKIT_MINIPORT_NAME holds the path.
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

function(dxgkit_add_miniport name)
  cmake_parse_arguments(ARG "" "" "SOURCES;OPTIONS" ${ARGN})
  set(flags -target x86_64-pc-windows-msvc-elf -O2 -g -ffreestanding -fno-stack-protector -fms-extensions
    -fasynchronous-unwind-tables -Wall -Wextra -Werror
    -isystem ${DXGKIT_MINIPORT_ROOT}/abi/include -I${DXGKIT_MINIPORT_ROOT} ${ARG_OPTIONS})
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
    set(object ${DXGKIT_MINIPORT_DIR}/${name}.dir/${file}.${hash}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${DXGKIT_MINIPORT_DIR}/${name}.dir
      COMMAND ${compiler} ${flags} -MD -MF ${object}.d -MT ${object} -c ${path} -o ${object}
      COMMAND ${DXGKIT_MINIPORT_RENAME} ${DXGKIT_MINIPORT_NM} ${DXGKIT_MINIPORT_OBJCOPY} ${object}
      DEPENDS ${path} ${DXGKIT_MINIPORT_RENAME}
      DEPFILE ${object}.d
      COMMENT "Building miniport object ${name}/${file}"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(image ${DXGKIT_MINIPORT_DIR}/${name}.so)
  add_custom_command(OUTPUT ${image}
    COMMAND ${DXGKIT_MINIPORT_LD} -shared -Bsymbolic -z now -z noexecstack -z separate-code --hash-style=both -o ${image} ${objects}
    DEPENDS ${objects}
    COMMENT "Linking miniport ${name}.so"
    VERBATIM)
  add_custom_target(miniport_${name} ALL DEPENDS ${image})
  set(DXGKIT_MINIPORT_${name} ${image} CACHE INTERNAL "")
endfunction()
