// Package layout owns what lies where in a model's directory: the configuration
// file, the directories of versions, and which directories are neither models nor
// versions.
package layout
