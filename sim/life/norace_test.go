//go:build !race

package life

const race = false
