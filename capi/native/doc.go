// Package native is the half of the C interface that backend libraries call: the functions of
// include/triton/core/tritonbackend.h. It is also who calls them: neso-host runs
// neso_host_main (main.go), which has models loaded (library.go, model.go), instances
// made (instance.go) and batches run (request.go, response.go) as package
// backend/native/host says.
//
// Libraries hold handles, never memory of Go. What they are given to read is memory of
// C or shared with the server, and lives as long as the object it was asked of.
// Open main.go first.
package native
