# The architectures of kernels/archs.inc and the families of kernels/families.inc.
#
#   fa_archs              all architectures, as FA_ARCHS names them, newest first
#   fa_default_archs      those that FA_ARCHS has by default, oldest first
#   fa_number_of_90a      90; fa_reach_of_90a: itself; fa_hardware_of_90a: a list
#   fa_families           the families, best first; fa_folder_of_backward_mma: backward/mma, of kernels/
#   fa_families_header    a folder with families.h, which includes every family's tiles.h
#   fa_full_names(VARIABLE)   a list of architectures: 90 and 100 become 90a and 100a
#   fa_kernel_lines(90a lines)   "mma,f16,32", "mma,f16,64", ...: the kernels of an architecture, with FA_BACKWARD=OFF
#                                without those of the backward pass
include_guard(GLOBAL)
set(fa_lists ${PROJECT_SOURCE_DIR}/kernels/archs.inc ${PROJECT_SOURCE_DIR}/kernels/families.inc)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${fa_lists})

set(fa_archs "")
set(fa_default_archs "")
file(STRINGS ${PROJECT_SOURCE_DIR}/kernels/archs.inc lines REGEX "^FA_ARCH")
foreach(line ${lines})
  if(NOT line MATCHES "^FA_ARCH\\(([0-9]+), ?([af]?), ([0-9]+[af]?), (always|named), ([0-9]+), (onward|family|itself), ([^)]*)\\)( +//.*)?$")
    message(FATAL_ERROR "kernels/archs.inc has a line that is not as its head says: ${line}")
  endif()
  set(arch ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
  list(APPEND fa_archs ${arch})
  set(fa_number_of_${arch} ${CMAKE_MATCH_1})
  set(fa_reach_of_${arch} ${CMAKE_MATCH_6})
  string(REPLACE " | " ";" fa_hardware_of_${arch} "${CMAKE_MATCH_7}")
  if(CMAKE_MATCH_4 STREQUAL "always")
    list(PREPEND fa_default_archs ${arch})
  endif()
endforeach()

set(fa_families "")
file(STRINGS ${PROJECT_SOURCE_DIR}/kernels/families.inc fa_family_lines REGEX "^FA_FAMILY")
foreach(line ${fa_family_lines})
  if(NOT line MATCHES "^FA_FAMILY\\(([a-z_]+), ([a-z0-9_]+), [a-z0-9]+, [a-z0-9_]+(, [0-9]+)+\\)$")
    message(FATAL_ERROR "kernels/families.inc has a line that is not as its head says: ${line}")
  endif()
  set(operation ${CMAKE_MATCH_1})
  set(family ${CMAKE_MATCH_2})
  list(APPEND fa_families ${family})
  string(REGEX REPLACE "^backward_" "" folder ${family})
  set(fa_folder_of_${family} ${operation}/${folder})
endforeach()
list(REMOVE_DUPLICATES fa_families)

set(fa_families_header ${PROJECT_BINARY_DIR}/families)
set(includes "")
foreach(family ${fa_families})
  string(APPEND includes "#include \"${fa_folder_of_${family}}/tiles.h\"\n")
endforeach()
file(CONFIGURE OUTPUT ${fa_families_header}/families.h CONTENT "// The families of kernels/families.inc.\n${includes}" @ONLY)

# Packages call 90 and 100 90a and 100a: without the letter there is no other.
function(fa_full_names variable)
  set(names "")
  foreach(name ${${variable}})
    if(NOT name IN_LIST fa_archs AND ${name}a IN_LIST fa_archs)
      set(name ${name}a)
    endif()
    list(APPEND names ${name})
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${variable} "${names}" PARENT_SCOPE)
endfunction()

function(fa_kernel_lines arch variable)
  set(kernels "")
  foreach(line ${fa_family_lines})
    string(REGEX MATCH "\\(([a-z]+), ([a-z0-9_]+), ([a-z0-9]+), ([a-z0-9_]+), (.*)\\)" matched "${line}")
    set(operation ${CMAKE_MATCH_1})
    set(kernel ${CMAKE_MATCH_2},${CMAKE_MATCH_3})
    set(needs ${CMAKE_MATCH_4})
    string(REPLACE ", " ";" dims "${CMAKE_MATCH_5}")
    if(operation STREQUAL "backward" AND NOT FA_BACKWARD)
      continue()
    endif()
    if(needs STREQUAL "nothing" OR needs IN_LIST fa_hardware_of_${arch})
      list(TRANSFORM dims PREPEND "${kernel},")
      list(APPEND kernels ${dims})
    endif()
  endforeach()
  set(${variable} "${kernels}" PARENT_SCOPE)
endfunction()
