# Build vocabulary of the project. One target per folder:
#   dxgkit_library(base SOURCES a.cpp DEPS fmt::fmt)   -> target dxgkit_base, headers as <folder>/x.h from src/
#     (APART b.cpp: sources that are not compiled together with others, see dxgkit_unity)
#   dxgkit_test(base SOURCES a_test.cpp DEPS ...)      -> one test binary dxgkit_base_test, run once by ctest
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(DXGKIT_WERROR "Warnings are errors" ON)
# Three quarters of the time of a file goes into its headers, so eight files in one translation unit take a third of the time. Presets
# without it (clang, sanitizers) show that each file includes what it needs.
option(DXGKIT_UNITY "Compile the files of a library or tool together" OFF)
# The same for tests. Who writes one may switch it off, as a file that is changed is then compiled without its neighbours.
option(DXGKIT_UNITY_TESTS "Compile the files of a test program together" ${DXGKIT_UNITY})
set(DXGKIT_SANITIZE "" CACHE STRING "Sanitizers for our own code: address,undefined or thread")

option(DXGKIT_PACKAGED "Nothing in the result tells in which folder it was built: make package, scripts/reproducible" OFF)
if(DXGKIT_PACKAGED)
  set(of_source -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
  set(of_build -ffile-prefix-map=${PROJECT_BINARY_DIR}=./build)
  add_compile_options(${of_source} ${of_build})
  # For drivers. The last that fits counts: names of their sources are seen from the folder of the build, which mostly lies below that of the source.
  set(DXGKIT_PREFIX_MAP ${of_build} ${of_source})
  # The length of a path of the build would move what lies behind it, even where the installation takes it away.
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
endif()
# Where programs look for a file that the build left: the path, or nothing in a package.
function(dxgkit_built out path)
  if(DXGKIT_PACKAGED)
    set(path "")
  endif()
  set(${out} "${path}" PARENT_SCOPE)
endfunction()

add_library(dxgkit_options INTERFACE)
target_compile_options(dxgkit_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align
  -fno-omit-frame-pointer
  $<$<BOOL:${DXGKIT_WERROR}>:-Werror>
  # g++ 12 reports these inside std:: templates it inlined itself, with no line of ours at fault.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-dangling-pointer -Wno-stringop-overflow -Wno-array-bounds>)
# For structures of 100 to 500 bytes, which a DDI call has several of, g++ chooses `rep stos`, which takes 30 ns to begin.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  set(by_vectors "vector_loop:1024:noalign,libcall:-1:noalign")
  target_compile_options(dxgkit_options INTERFACE -mmemset-strategy=${by_vectors} -mmemcpy-strategy=${by_vectors})
endif()
# g++ looks for what it may free each time its memory has grown by a third, which takes a sixth of the time of a test's file. No file of ours
# needs a gigabyte.
target_compile_options(dxgkit_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>)
# In position-independent code g++ otherwise inlines no global function, because the dynamic linker might replace it.
target_compile_options(dxgkit_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
target_include_directories(dxgkit_options INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
if(DXGKIT_SANITIZE)
  target_compile_options(dxgkit_options INTERFACE -fsanitize=${DXGKIT_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(dxgkit_options INTERFACE -fsanitize=${DXGKIT_SANITIZE})
  # g++ 12 with sanitizers reports this inside <regex>.
  target_compile_options(dxgkit_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
# A build for one question only: what always-on checks cost. Without them g++ warns of what they rule out.
option(DXGKIT_UNCHECKED "DXGKIT_CHECK looks at nothing: scripts/check_cost" OFF)
if(DXGKIT_UNCHECKED)
  if(DXGKIT_PACKAGED)
    message(FATAL_ERROR "Nobody gets a dxgkit without its checks.")
  endif()
  target_compile_definitions(dxgkit_options INTERFACE DXGKIT_UNCHECKED)
  target_compile_options(dxgkit_options INTERFACE -Wno-error)
endif()
# The compiler calls functions of bench/transfers/counter.cpp where it would call the sanitizer's; there are no fibers to tell it of.
option(DXGKIT_COUNT_TRANSFERS "Each access to memory is counted: bench/transfers" OFF)
if(DXGKIT_COUNT_TRANSFERS)
  target_compile_options(dxgkit_options INTERFACE -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -U__SANITIZE_THREAD__ -Wno-tsan)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # std::stable_sort of libstdc++ 12 uses what the same library marks deprecated in C++23.
  # Windows' headers put signed enums into bit fields that just hold them (D3DKMDT_MODE_PREFERENCE : 2).
  target_compile_options(dxgkit_options INTERFACE -Wthread-safety -Wno-deprecated-declarations -Wno-bitfield-enum-conversion)
endif()

# The sources named, which have names of their own that others have too, stay apart.
function(dxgkit_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${DXGKIT_UNITY})
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(DXGKIT_UNITY)
    # g++ takes an included source for a header, whose types others see.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

function(dxgkit_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(dxgkit_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(dxgkit_${name} PUBLIC dxgkit_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  dxgkit_unity(dxgkit_${name} ${ARG_APART})
  if(DXGKIT_OVERLAY)
    dxgkit_overlaid_sources(dxgkit_${name})
  endif()
endfunction()

# The types of the public interface stay in the debugging information, which has lines only otherwise: scripts/abi_check reads them.
function(dxgkit_keep_types target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-g2>)
endfunction()

# Where test binaries leave their results for `make rules`.
set(DXGKIT_TEST_RESULTS ${CMAKE_BINARY_DIR}/test-results)
file(MAKE_DIRECTORY ${DXGKIT_TEST_RESULTS})

# With -fpch-preprocess, ccache can keep what is compiled with a precompiled header: CCACHE_SLOPPINESS=pch_defines,time_macros.
set(DXGKIT_CACHEABLE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
# Two fifths of the time of a unit test's file are the test library's headers. Presets without DXGKIT_UNITY read them each time, and show that each
# file includes what it needs.
set(DXGKIT_TEST_HEADERS <gmock/gmock.h> <gtest/gtest.h> <algorithm> <array> <atomic> <functional> <map> <memory> <optional> <set> <string> <utility> <vector>)
function(dxgkit_precompile_test_headers)
  if(NOT DXGKIT_UNITY)
    return()
  endif()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cpp CONTENT "// Only what it is compiled with counts.\n" @ONLY)
  add_library(dxgkit_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
  target_link_libraries(dxgkit_test_headers PRIVATE dxgkit_options GTest::gmock GTest::gtest)
  # Code for programs, as tests are: a precompiled header serves only what is compiled alike.
  set_target_properties(dxgkit_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(dxgkit_test_headers PRIVATE -fPIE ${DXGKIT_CACHEABLE})
  target_precompile_headers(dxgkit_test_headers PRIVATE ${DXGKIT_TEST_HEADERS})
endfunction()

# Headers that most files of a library or tool read, read once; or REUSE_FROM another target that is compiled alike. Presets without DXGKIT_UNITY
# and trees with mutants read them each time.
function(dxgkit_precompile target)
  if(DXGKIT_UNITY AND NOT DXGKIT_OVERLAY)
    target_compile_options(${target} PRIVATE ${DXGKIT_CACHEABLE})
    target_precompile_headers(${target} ${ARGN})
  endif()
endfunction()

# A name of a file's own may be that of something inside another. Linked last, as flags of libraries stand in their order.
add_library(dxgkit_beside_others INTERFACE)
target_compile_options(dxgkit_beside_others INTERFACE -Wno-shadow)

# Tests look into a kernel that stands still, without its lane. Linked last, as the library above.
add_library(dxgkit_test_warnings INTERFACE)
target_compile_options(dxgkit_test_warnings INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-thread-safety-analysis>)

# HEADERS: a target whose precompiled header the test takes instead of the test library's. APART: sources as in dxgkit_library.
function(dxgkit_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;HEADERS" "SOURCES;APART;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(dxgkit_${name}_test ${ARG_SOURCES})
  foreach(source ${ARG_SOURCES})
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    set_property(GLOBAL APPEND PROPERTY DXGKIT_TEST_SOURCES ${source})
  endforeach()
  target_link_libraries(dxgkit_${name}_test PRIVATE dxgkit_options ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  if(NOT ARG_HEADERS AND TARGET dxgkit_test_headers)
    set(ARG_HEADERS dxgkit_test_headers)
  endif()
  if(ARG_HEADERS)
    target_compile_options(dxgkit_${name}_test PRIVATE ${DXGKIT_CACHEABLE})
    target_precompile_headers(dxgkit_${name}_test REUSE_FROM ${ARG_HEADERS})
  endif()
  if(DXGKIT_UNITY_TESTS)
    dxgkit_unity(dxgkit_${name}_test ${ARG_APART})
    target_link_libraries(dxgkit_${name}_test PRIVATE dxgkit_beside_others)
  endif()
  target_link_libraries(dxgkit_${name}_test PRIVATE dxgkit_test_warnings)
  if(DXGKIT_OVERLAY)
    dxgkit_overlaid_test(dxgkit_${name}_test)
  endif()
  add_test(NAME ${name} COMMAND dxgkit_${name}_test --gtest_output=xml:${DXGKIT_TEST_RESULTS}/${name}.xml)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()

# Called when every test is there: a *_test.cpp that no dxgkit_test names would prove nothing. A contract test is in one program, as it would
# otherwise run twice.
function(dxgkit_every_test_is_compiled)
  get_property(compiled GLOBAL PROPERTY DXGKIT_TEST_SOURCES)
  foreach(folder abi bench devices fuzz miniports rules sim src tests tools)
    file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*_test.cpp)
    foreach(test ${tests})
      if(NOT test IN_LIST compiled)
        message(SEND_ERROR "No dxgkit_test compiles ${test}.")
      endif()
    endforeach()
  endforeach()
  foreach(test ${compiled})
    if(test IN_LIST seen AND test MATCHES "/tests/contract/.*_test\\.cpp$")
      message(SEND_ERROR "Two programs compile ${test}.")
    endif()
    list(APPEND seen ${test})
  endforeach()
endfunction()
