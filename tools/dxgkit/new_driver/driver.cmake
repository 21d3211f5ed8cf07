cmake_minimum_required(VERSION 3.25)
project(skeleton C CXX)
find_package(dxgkit REQUIRED)
dxgkit_enable_miniports()
# What Windows loads, build/miniports/skeleton.sys, and its ELF twin for debuggers.
dxgkit_add_miniport(skeleton SOURCES skeleton.c)
# What dxgkit knows of the driver's private data and commands.
add_library(client MODULE client.c)
target_link_libraries(client PRIVATE dxgkit::device)
set_target_properties(client PROPERTIES PREFIX "")
# dxgkit reads it beside the driver.
configure_file(dxgkit.toml miniports/dxgkit.toml COPYONLY)
