// Package overlay writes options in tests as what differs from the defaults.
package overlay

import "reflect"

// On returns the defaults with the fields of given that are not zero, also of the structs in it.
func On[T any](defaults, given T) T {
	over(reflect.ValueOf(&defaults).Elem(), reflect.ValueOf(given))
	return defaults
}

func over(to, from reflect.Value) {
	for i := range from.NumField() {
		switch f := from.Field(i); {
		case f.IsZero() || !to.Field(i).CanSet():
		case f.Kind() == reflect.Struct:
			over(to.Field(i), f)
		default:
			to.Field(i).Set(f)
		}
	}
}
