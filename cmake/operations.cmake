# The operations of schema/ops.def, and the files that have the name of one.
#
#   fa_operations, fa_operation_types                forward, backward, ...; Forward, Backward, ...: global properties
#   fa_files_of_operations(VARIABLE PREFIX SUFFIX)   <PREFIX><operation><SUFFIX>, where the calling folder has such a file
#   fa_header_of_operations(HEADER FOLDER SUFFIX)    writes HEADER, which includes FOLDER/<operation><SUFFIX> of each of these files
include_guard(GLOBAL)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schema/ops.def)
file(READ ${PROJECT_SOURCE_DIR}/schema/ops.def fa_operations)
string(REGEX MATCHALL "OPERATION\\([a-z_]+, [A-Za-z]+, FA_[A-Z_]+\\)" fa_operations "${fa_operations}")
list(TRANSFORM fa_operations REPLACE "OPERATION.[a-z_]+, ([A-Za-z]+),.*" "\\1" OUTPUT_VARIABLE fa_operation_types)
list(TRANSFORM fa_operations REPLACE "OPERATION.([a-z_]+),.*" "\\1")
set_property(GLOBAL PROPERTY fa_operations ${fa_operations})
set_property(GLOBAL PROPERTY fa_operation_types ${fa_operation_types})

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

function(fa_header_of_operations header folder suffix)
  fa_files_of_operations(files "" ${suffix})
  list(TRANSFORM files REPLACE "(.+)" "#include \"${folder}/\\1\"\n")
  list(JOIN files "" includes)
  file(CONFIGURE OUTPUT ${header} CONTENT "// Of each operation of schema/ops.def.\n${includes}" @ONLY)
endfunction()
