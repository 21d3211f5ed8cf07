# The PE form of a miniport: what a WDK build gives, made by clang and lld. Included by Miniport.cmake.
#
# A driver links ntoskrnl.lib, an import library of exactly what this kernel exports (so a misspelled import is a link error, as with
# the WDK), and kmlib.lib, the static code every kernel image carries (miniports/kmlib).
find_program(DXGKIT_MINIPORT_LINK NAMES lld-link-19 lld-link REQUIRED)
find_program(DXGKIT_MINIPORT_LIB NAMES llvm-lib-19 llvm-lib REQUIRED)
find_program(DXGKIT_MINIPORT_DLLTOOL NAMES llvm-dlltool-19 llvm-dlltool REQUIRED)
set(DXGKIT_KERNEL_LIBS)
if(NOT DXGKIT_KERNEL_IMPORT_LIB)  # an installed dxgkit brings both
  set(DXGKIT_KERNEL_IMPORT_LIB ${DXGKIT_MINIPORT_DIR}/ntoskrnl.lib)
  set(DXGKIT_KERNEL_STATIC_LIB ${DXGKIT_MINIPORT_DIR}/kmlib.lib)
  set(DXGKIT_KERNEL_LIBS dxgkit_kernel_libs)
endif()
# The stack is protected as /GS does it. The image has DWARF and a symbol table, so that findings name functions, files and lines; both lie in
# sections that Windows discards. A load inside __try may raise, as MSVC takes it; clang 19 ends with a fault of its own on a few sources then,
# which are built with -fno-async-exceptions in their OPTIONS. Objects have no time in them.
set(DXGKIT_MINIPORT_PE_FIRST_FLAGS -fasync-exceptions)
set(DXGKIT_MINIPORT_PE_FLAGS -target x86_64-pc-windows-msvc -gdwarf -fstack-protector-strong -mno-incremental-linker-compatible)

# Once, by miniports/kmlib: the two libraries above, from a host program that prints a module definition.
function(dxgkit_kernel_libraries lister)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  set(definition ${DXGKIT_MINIPORT_DIR}/ntoskrnl.def)
  # A kernel that was built anew but exports the same does not link every driver anew.
  add_custom_command(OUTPUT ${definition}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${DXGKIT_MINIPORT_DIR}
    COMMAND ${lister} > ${definition}.new
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${definition}.new ${definition}
    DEPENDS ${lister}
    COMMENT "Listing what the kernel exports"
    VERBATIM)
  add_custom_command(OUTPUT ${DXGKIT_KERNEL_IMPORT_LIB}
    COMMAND ${DXGKIT_MINIPORT_DLLTOOL} -m i386:x86-64 -d ${definition} -l ${DXGKIT_KERNEL_IMPORT_LIB}
    DEPENDS ${definition}
    COMMENT "Making ntoskrnl.lib"
    VERBATIM)
  # Without DWARF: where an image has some, nobody looks into the PDB of the driver that links this.
  dxgkit_miniport_objects(objects kmlib obj SOURCES ${ARG_SOURCES}
    FLAGS ${DXGKIT_MINIPORT_PE_FIRST_FLAGS} ${DXGKIT_MINIPORT_PE_FLAGS} -g0 -fno-stack-protector -O2 -ffreestanding -fms-extensions
          -fasynchronous-unwind-tables -Wall -Wextra -Werror -isystem ${DXGKIT_MINIPORT_INCLUDE})
  set(names ${objects})
  list(TRANSFORM names REPLACE "^${DXGKIT_MINIPORT_DIR}/" "")
  add_custom_command(OUTPUT ${DXGKIT_KERNEL_STATIC_LIB}
    COMMAND ${DXGKIT_MINIPORT_LIB} /nologo /out:kmlib.lib ${names}
    WORKING_DIRECTORY ${DXGKIT_MINIPORT_DIR}
    DEPENDS ${objects}
    COMMENT "Making kmlib.lib"
    VERBATIM)
  add_custom_target(dxgkit_kernel_libs DEPENDS ${DXGKIT_KERNEL_IMPORT_LIB} ${DXGKIT_KERNEL_STATIC_LIB})
endfunction()

function(dxgkit_miniport_pe out name)
  cmake_parse_arguments(ARG "" "" "SOURCES;FLAGS;IMPORTS" ${ARGN})
  dxgkit_miniport_objects(objects ${name} obj SOURCES ${ARG_SOURCES}
    FLAGS ${DXGKIT_MINIPORT_PE_FIRST_FLAGS} ${ARG_FLAGS} ${DXGKIT_MINIPORT_PE_FLAGS})
  set(image ${DXGKIT_MINIPORT_DIR}/${name}.sys)
  set(more)
  if(ARG_IMPORTS)
    set(extra ${DXGKIT_MINIPORT_DIR}/${name}.dir/imports)
    list(JOIN ARG_IMPORTS "\n  " lines)
    file(CONFIGURE OUTPUT ${extra}.def CONTENT "LIBRARY ntoskrnl.exe\nEXPORTS\n  ${lines}\n")
    set(more COMMAND ${DXGKIT_MINIPORT_DLLTOOL} -m i386:x86-64 -d ${extra}.def -l ${extra}.lib)
    list(APPEND objects ${extra}.lib)
  endif()
  set(depends ${objects})
  list(FILTER depends EXCLUDE REGEX "\\.lib$")
  add_custom_command(OUTPUT ${image}
    ${more}
    COMMAND ${DXGKIT_MINIPORT_LINK} /nologo /driver /subsystem:native /entry:DriverEntry /nodefaultlib /debug:dwarf,symtab /Brepro
            /out:${image} ${objects} ${DXGKIT_KERNEL_STATIC_LIB} ${DXGKIT_KERNEL_IMPORT_LIB}
    DEPENDS ${depends} ${DXGKIT_KERNEL_STATIC_LIB} ${DXGKIT_KERNEL_IMPORT_LIB} ${DXGKIT_KERNEL_LIBS}
    COMMENT "Linking miniport ${name}.sys"
    VERBATIM)
  set(${out} ${image} PARENT_SCOPE)
endfunction()
