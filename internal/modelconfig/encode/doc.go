// Package encode owns the printed forms of a configuration's message: JSON as the
// config endpoint has it, the text of config.pbtxt, and YAML. Open json.go first.
package encode
