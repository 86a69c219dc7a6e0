// Package policy is a fixture.
package policy
