// Package startpages gives back the memory that only the start of the server has
// needed: pages of the program and its libraries. Open startpages_linux.go first;
// elsewhere there is nothing to do.
package startpages
