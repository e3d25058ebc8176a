// Package haulier is the domain of the Haulier job queue: what a job is, which
// states it goes through, and the ports through which the parts of the system
// meet.
//
// It does no I/O. The engine implements Queue over a Store; the HTTP client
// implements Queue over the network; a worker needs only Consumer, a program
// that enqueues only Producer. Job.Next is the one rule book of states.
//
// All values are plain data: copy them freely. Slices and maps inside a value
// that was handed over belong to the receiver and are not changed afterwards.
package haulier
