// Package near is what the server and a worker in its own process share beside their
// channel: who has sent a request, and memory for outputs that it gives. Open near.go first.
package near
