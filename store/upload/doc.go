// Package upload says what is known of a resumable upload beside its bytes, and
// how that is noted.
package upload
