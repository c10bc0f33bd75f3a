# The target `xgrammar`: the C++ core of the grammar compiler, built from its PyPI source package.
# All build folders share one unpacked copy in build/xgrammar. Its own CMakeLists.txt is passed over,
# since it forces link-time optimisation, -O3 and its warnings on whoever links it.
set(xgrammar_source ${PROJECT_SOURCE_DIR}/build/xgrammar)
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/fetch_xgrammar.sh ${xgrammar_source}
                RESULT_VARIABLE xgrammar_result)
if(NOT xgrammar_result EQUAL 0)
  message(FATAL_ERROR "xgrammar could not be fetched")
endif()

file(GLOB xgrammar_files ${xgrammar_source}/cpp/*.cc ${xgrammar_source}/cpp/support/*.cc
     ${xgrammar_source}/cpp/converter_ext/*.cc)
add_library(xgrammar STATIC ${xgrammar_files})
set_target_properties(xgrammar PROPERTIES CXX_STANDARD 17 EXPORT_COMPILE_COMMANDS OFF)
# SYSTEM: its headers are not held to our warnings.
target_include_directories(xgrammar SYSTEM PUBLIC ${xgrammar_source}/include
                           ${xgrammar_source}/3rdparty/dlpack/include
                           PRIVATE ${xgrammar_source}/3rdparty/picojson)
# Its messages come to src/grammar: what it would pass over is refused there.
target_compile_definitions(xgrammar PRIVATE XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0
                           XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
target_compile_options(xgrammar PRIVATE -w)
if(QUERN_SANITIZE)
  target_compile_options(xgrammar PRIVATE -fno-sanitize=undefined)
endif()
