// Package limits is a fixture.
package limits
