// Package resolver is a fixture.
package resolver
