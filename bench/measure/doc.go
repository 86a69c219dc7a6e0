// Package measure starts the processes that the measurements compare, reads what they use of the machine and what they
// say of themselves, and writes the rows of the result.
package measure
