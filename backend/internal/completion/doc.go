// Package completion owns what backends share when they complete a model's
// configuration from its file: which parts are missing ([Config]), and the JSON
// form of what goes into them ([IO]).
//
// Open config.go first.
package completion
