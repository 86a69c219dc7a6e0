// Package status holds the closed table of outcomes (SPEC §3) and the one
// error type that carries them.
//
// A package that fails returns an error with an outcome, made by [Errorf] or
// by a type of its own with a Status method. The object server, the HTTP
// gateway and the command line translate that error through [Of] and
// [ReportOf] and through nothing else, so one failure has one meaning on every
// surface: an OAP code, an HTTP status, an exit code and a retry hint.
//
// One error, walked through: the store finds a bad group and returns
// Errorf(Corrupt, …); the resolver wraps it with %w; the gateway calls
// ReportOf(err), answers 502 with the report as its body; the command line
// decodes the report, prints its message and exits with 65.
package status
