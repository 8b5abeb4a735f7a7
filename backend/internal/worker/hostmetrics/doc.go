// Package hostmetrics keeps the custom metrics that the model of one worker has made
// in the server, and lets go of them when the model or the worker does.
package hostmetrics
