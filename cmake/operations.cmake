# The operations of schema/ops.def, and the files that have the name of one.
#
#   fa_operations                                    forward, backward, ...
#   fa_files_of_operations(VARIABLE PREFIX SUFFIX)   <PREFIX><operation><SUFFIX>, where the calling folder has such a file
include_guard(GLOBAL)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schema/ops.def)
file(READ ${PROJECT_SOURCE_DIR}/schema/ops.def fa_operations)
string(REGEX MATCHALL "OPERATION\\([a-z_]+, [A-Za-z]+, FA_[A-Z_]+\\)" fa_operations "${fa_operations}")
list(TRANSFORM fa_operations REPLACE "OPERATION.([a-z_]+),.*" "\\1")
set_property(GLOBAL PROPERTY fa_operations ${fa_operations})

function(fa_files_of_operations variable prefix suffix)
  get_property(operations GLOBAL PROPERTY fa_operations)
  set(files "")
  foreach(operation ${operations})
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${prefix}${operation}${suffix})
      list(APPEND files ${prefix}${operation}${suffix})
    endif()
  endforeach()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()
