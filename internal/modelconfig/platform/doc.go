// Package platform owns which backend runs which kind of model: the names of
// platforms, the files by which a kind is recognized, and what was meant by a name
// that is none of them.
package platform
