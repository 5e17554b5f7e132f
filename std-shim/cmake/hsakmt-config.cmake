# find_package(hsakmt): hsakmt::hsakmt is the shared library, hsakmt::static the archive.
#
# The prefix is found from where this file lies, so the installed tree may be moved.
get_filename_component(_hsakmt_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET hsakmt::hsakmt)
    add_library(hsakmt::hsakmt SHARED IMPORTED)
    set_target_properties(hsakmt::hsakmt PROPERTIES
        IMPORTED_LOCATION "${_hsakmt_prefix}/lib/libhsakmt.so.1"
        IMPORTED_SONAME libhsakmt.so.1
        INTERFACE_INCLUDE_DIRECTORIES "${_hsakmt_prefix}/include")

    add_library(hsakmt::static STATIC IMPORTED)
    set_target_properties(hsakmt::static PROPERTIES
        IMPORTED_LOCATION "${_hsakmt_prefix}/lib/libhsakmt.a"
        INTERFACE_INCLUDE_DIRECTORIES "${_hsakmt_prefix}/include"
        INTERFACE_LINK_LIBRARIES "pthread;m;dl")
endif()

unset(_hsakmt_prefix)
