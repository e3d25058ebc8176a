//go:build !linux && !darwin

package pebble

// bootID can't be told here: every unclean opening counts as after a power cut.
func bootID() string { return "" }
