// Package segment is the shared memory of workers. The server makes every segment;
// a segment has no name that another process could guess, and on Linux it cannot
// shrink.
//
// An Arena is the input memory of one version of a model, divided by a Buddy.
// Outputs is the memory that one worker writes to and divides up itself. A
// DevicePool makes segments on GPUs. Loans say which segments of others a worker
// has been given to read. Open segment.go first, then arena.go.
package segment
