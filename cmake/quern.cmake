# quern_library(base SOURCES … DEPENDS …): the library of one folder of src/.
# quern_test(base SOURCES …): its GoogleTest program, one ctest entry a folder.
function(quern_library folder)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(quern_${folder} STATIC ${arg_SOURCES})
  target_include_directories(quern_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/src
                             ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(quern_${folder} PUBLIC ${arg_DEPENDS})
endfunction()

function(quern_test folder)
  if(QUERN_FUZZ)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${folder}_test ${arg_SOURCES})
  target_link_libraries(${folder}_test PRIVATE quern_${folder} ${arg_DEPENDS} GTest::gtest_main
                        GTest::gmock)
  target_compile_definitions(${folder}_test PRIVATE
                             QUERN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  add_test(NAME ${folder} COMMAND ${folder}_test)
  set_tests_properties(${folder} PROPERTIES LABELS unit)
  if(folder MATCHES "^(base|catalog)$")
    # These make errors to look at them, which is no proof that the program raises them.
    set_tests_properties(${folder} PROPERTIES ENVIRONMENT QUERN_ERROR_TRACE=)
  endif()
endfunction()
