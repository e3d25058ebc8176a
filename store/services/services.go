// Package services starts what tests of the store drivers need beside Go: servers of their own, in temporary
// folders, which end with the tests.
package services
