package services

import "os"

// Place is where a server runs. The zero value is where the tests do, reached by loopback.
type Place struct {
	Net  *os.File // its network namespace, on Linux; nil: that of the tests
	Host string   // address it is reached at; "": 127.0.0.1
}

func (p Place) host() string {
	if p.Host == "" {
		return "127.0.0.1"
	}
	return p.Host
}
