# Debian packages, one for each component of the install rules: `make package`.
set(copyright ${CMAKE_BINARY_DIR}/copyright)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE licence)
string(REGEX REPLACE "^MIT License\n+Copyright[^\n]*\n+" "" licence "${licence}")
string(REPLACE "\n\n" "\n.\n" licence "${licence}")
string(STRIP "${licence}" licence)
string(REPLACE "\n" "\n " licence "${licence}")
file(CONFIGURE OUTPUT ${copyright} @ONLY CONTENT "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: dxgkit

Files: *
Copyright: 2026 The dxgkit authors
License: MIT

License: MIT
 @licence@
")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The dxgkit authors")
set(CPACK_PACKAGE_CONTACT "The dxgkit authors <dxgkit@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library development tool)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

function(dxgkit_deb component name section)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  install(FILES ${copyright} DESTINATION share/doc/${name} COMPONENT ${component})
endfunction()
set(library_package libdxgkit${DXGKIT_SOVERSION})
set(same "(= ${PROJECT_VERSION})")

dxgkit_deb(library ${library_package} libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "WDDM graphics kernel as a library
The kernel that stands between a display miniport driver and its clients in
Windows, for an ordinary Linux process, with the drivers that come with it.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)

dxgkit_deb(development libdxgkit-dev libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "WDDM graphics kernel as a library (development files)
Headers, CMake and pkg-config files, the static library, and what builds
display miniport drivers.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} ${same}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libfmt-dev, libzydis-dev, libboost-context-dev, clang-19, lld-19, llvm-19")

dxgkit_deb(tool dxgkit devel)
set(CPACK_COMPONENT_TOOL_DESCRIPTION "run and verify WDDM display miniport drivers on Linux
Starts a display driver of Windows in an ordinary process, exercises it, and
says which rule of WDDM it broke. With examples, manual pages, completion for
bash, zsh and fish, and units of systemd.")
set(CPACK_DEBIAN_TOOL_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOL_PACKAGE_DEPENDS "${library_package} ${same}")
set(CPACK_DEBIAN_TOOL_PACKAGE_SUGGESTS "libdxgkit-dev, gdb")
include(CPack)

# What the install rules need, and no test.
add_custom_target(installed DEPENDS dxgkit_tool dxgkit dxgkit_static picture_program dxcore dxcore_client dxg_shim)
if(TARGET dxgkit_renderer)
  add_dependencies(installed dxgkit_renderer)
endif()
