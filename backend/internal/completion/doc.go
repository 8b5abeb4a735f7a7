// Package completion owns what backends share when they complete a model's
// configuration from its file: which parts are missing ([Config]), the JSON form
// of what goes into them ([IO]), and what was loaded for it and then serves
// ([Ready]).
//
// Open config.go first.
package completion
