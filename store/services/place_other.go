//go:build !linux

package services

// Within calls f. Network namespaces are for Linux.
func (p Place) Within(f func() error) error { return f() }
