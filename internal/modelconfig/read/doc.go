// Package read owns the two written forms of a configuration, the text of
// config.pbtxt and JSON: it fills the message and says where each field stands,
// every fault of syntax and schema at once, and which fields are open because what
// the user wrote of them cannot be read. What the values mean is not its affair.
//
// Open text.go and scan.go for the text, json.go for JSON; both give their values to
// the targets of target.go. Protobuf's own parsers are the twins in the tests.
package read
