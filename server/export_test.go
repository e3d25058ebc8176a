package server

// What the fuzz targets drive without a request around it.
var (
	ParseEnqueue = parseEnqueue
	ParseReports = parseReports
)
