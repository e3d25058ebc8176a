// Package e2e holds tests alone: they run the real program as real processes,
// and take them down wherever they like.
//
//	go test ./e2e -crash.rounds 0 -crash.time 10m     the crash suite for ten minutes
//	go test ./e2e -crash.seed 42                      the same choices again
package e2e
