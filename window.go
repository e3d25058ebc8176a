package haulier

import "time"

// Window is a calendar by which jobs may start, of those that name it, of queues and of types. It is identified by tenant and name.
type Window struct {
	Tenant string `json:"tenant,omitempty"` // default unless said
	Name   string `json:"name,omitempty"`
	// Mode is freeze, no job starts while a rule matches, or open: jobs start only then.
	Mode string `json:"mode"`
	// Zone is whose clock the rules mean, as in Europe/Berlin; UTC unless said.
	Zone string `json:"zone,omitempty"`
	// Rules are sets of minutes, hours of weekdays, or dates, as package calendar reads them.
	Rules  []string `json:"rules"`
	Queues []string `json:"queues,omitempty"` // all jobs of these queues keep to it
	Types  []string `json:"types,omitempty"`  // and all of these types
	// Newest lets only the newest job of each queue and type survive a freeze: it replaces the others.
	Newest bool `json:"newest,omitempty"`

	WindowStanding
}

// WindowStanding is how a window stands. Only the server sets it.
type WindowStanding struct {
	Closed bool      `json:"closed"`          // no job starts now
	Until  time.Time `json:"until,omitzero"`  // when that changes; zero: never
	Frozen int       `json:"frozen,omitzero"` // jobs that wait for it, up to 1000
}
