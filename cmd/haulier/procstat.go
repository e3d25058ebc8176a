package main

// processUse is what a process has used so far.
type processUse struct {
	CPU  float64 // seconds
	RSS  int64   // bytes now
	Peak int64   // bytes at most; zero: not known
}
