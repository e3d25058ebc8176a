package pebble

// Small makes windows and caches so small that every path is taken often.
func Small(o Options) Options {
	o.windows = windowSizes{fill: 4, low: 2, most: 8, total: 12, idle: 2}
	o.JobCache = 1
	return o
}

// What reads bytes from disk or from outside, for the fuzz targets.

// ParseCursor reads a cursor and writes it again.
func ParseCursor(text string) (string, error) {
	c, err := parseCursor(text)
	return c.String(), err
}

// ParseDoc reads a document's record and writes it again.
func ParseDoc(b []byte) ([]byte, error) {
	f, value, err := parseDoc(b)
	return appendDoc(nil, f, value), err
}

// ParseLane reads a lane's record and writes it again.
func ParseLane(b []byte) ([]byte, error) {
	l, err := parseLane(b)
	return appendLane(nil, l), err
}

// ParseMark reads the end of an index key and writes it again.
func ParseMark(b []byte) ([]byte, error) {
	m, err := parseMark(b)
	return appendMark(nil, m), err
}

// ParseMarker reads the file that marks a store's folder.
func ParseMarker(text string) (string, error) { return parseMarker(text) }
