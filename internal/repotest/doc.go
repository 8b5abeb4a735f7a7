// Package repotest holds the rules of the repository as tests: import order,
// size of files and packages, a reason for every dependency, package comments,
// and documents that name what exists. Open imports_test.go first.
package repotest
