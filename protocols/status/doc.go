// Package status provides the closed table of outcomes (SPEC §3) and the error type that carries
// them. An outcome says what became of a request: an OAP code, an HTTP status, an exit code and
// whether a retry helps.
//
// Invariants:
//
//   - A package returns an error with an outcome: one made by [Errorf], or one of the package's types with a Status
//     method. Errors without an outcome are internal, except those that [Of] recognizes.
//   - The object server, the HTTP gateway and the command line translate errors only through [Of] and
//     [ReportOf]. So a failure means the same everywhere.
//
// One error: the store finds a corrupt group and returns Errorf(Corrupt, …). The resolver wraps it
// with %w. The gateway calls ReportOf(err) and answers 502 with the report as the body. The command
// line decodes the report, turns it into an error with Report.Err, prints its message and exits with
// 65.
package status
