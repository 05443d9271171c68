package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/regular"
	"github.com/sluice-rag/sluice/internal/settings"
)

// FileName is looked for in the working folder, then in the user's configuration folder.
const FileName = "sluice.yaml"

const envPrefix = "SLUICE_"

// maxFile is the largest settings file that is read, in bytes.
const maxFile = 1 << 20

// Flag is a value given on the command line.
type Flag struct {
	Field       settings.Field
	Name, Value string
}

// Source has the inputs of Load.
type Source struct {
	Path  string   // explicit file, which must exist; "" takes $SLUICE_CONFIG, then Find()
	Env   []string // as os.Environ
	Flags []Flag
}

// Origin is where a value comes from: "default", "sluice.yaml:12", "SLUICE_MODEL", "--model".
type Origin string

// Value is a setting in force.
type Value struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin Origin `json:"origin"`
}

// Loaded is the configuration in force and its history.
type Loaded struct {
	Config Config
	Path   string   // the file that was read, "" if none
	Unused []string // SLUICE_* variables that are not settings, sorted
	values []Value
}

// Values lists every setting in the order of the table, secrets redacted.
func (l *Loaded) Values() []Value { return slices.Clone(l.values) }

// Given reports whether a key was set anywhere (its value is not the default's).
func (l *Loaded) Given(key string) bool {
	return slices.ContainsFunc(l.values, func(v Value) bool { return v.Key == key && v.Origin != "default" })
}

// Load merges defaults, file, environment and flags, in that order.
func Load(s Source) (*Loaded, error) {
	path, err := choose(s)
	if err != nil {
		return nil, err
	}
	l := &Loaded{Path: path, Config: Defaults()}
	fields, origins, config := Fields(), map[string]Origin{}, reflect.ValueOf(&l.Config).Elem()
	merge := func(f settings.Field, text string, o Origin) error {
		if err := f.Set(config, text); err != nil {
			return fmt.Errorf("%w: %s: %s: %w", ErrConfig, o, f.Key, err)
		}
		origins[f.Key] = o
		return nil
	}
	if path != "" {
		text, err := regular.ReadFile(path, maxFile)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		if err := mergeFile(path, text, fields, merge); err != nil {
			return nil, err
		}
	}
	if l.Unused, err = mergeEnv(s.Env, fields, merge); err != nil {
		return nil, err
	}
	for _, flag := range s.Flags {
		if err := merge(flag.Field, flag.Value, Origin("--"+flag.Name)); err != nil {
			return nil, err
		}
	}
	for _, f := range fields {
		v := Value{Key: f.Key, Value: f.Value(config), Origin: "default"}
		if o, given := origins[f.Key]; given {
			v.Origin = o
		}
		if f.Secret {
			v.Value = redact(v.Value)
		} else if text, ok := v.Value.(string); ok {
			v.Value = password.ReplaceAllString(text, "$1:xxxxx@")
		}
		l.values = append(l.values, v)
	}
	return l, nil
}

// password is what may stand in the URL of a database.
var password = regexp.MustCompile(`\b(postgres(?:ql)?://[^:/@\s]*):[^@\s]*@`)

func redact(v any) string {
	if v == "" {
		return "(not set)"
	}
	return "(set)"
}

// Find returns the file that is read when none is named: ./sluice.yaml, else sluice/sluice.yaml in the
// user's configuration folder, else "".
func Find() string {
	candidates := []string{FileName}
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "sluice", FileName))
	}
	for _, c := range candidates {
		if info, err := os.Stat(c); err == nil && info.Mode().IsRegular() {
			return c
		}
	}
	return ""
}

func choose(s Source) (string, error) {
	path, by := s.Path, "--config"
	if path == "" {
		for _, e := range s.Env {
			if v, ok := strings.CutPrefix(e, envPrefix+"CONFIG="); ok {
				path, by = v, envPrefix+"CONFIG"
			}
		}
	}
	if path == "" {
		return Find(), nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "",
			fmt.Errorf("%w: %s names %s, which does not exist; 'sluice config init %s' writes one", ErrConfig, by, path,
				path)
	}
	return path, nil
}

type merger func(f settings.Field, text string, o Origin) error

// mergeFile reads YAML. Values are scalars; anchors, lists and a second document are refused.
func mergeFile(path string, text []byte, fields []settings.Field, merge merger) error {
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // empty, or comments only
	} else if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s: more than one YAML document", ErrConfig, path)
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil
	}
	return mergeMapping(path, doc.Content[0], "", fields, map[string]int{}, merge)
}

func mergeMapping(
	path string, n *yaml.Node, prefix string, fields []settings.Field, seen map[string]int, merge merger,
) error {
	at := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", path, n.Line) }
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%w: %s: keys with values are wanted below %q", ErrConfig, at(n),
			strings.TrimSuffix(prefix, "."))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := prefix + name.Value
		if first, twice := seen[key]; twice {
			return fmt.Errorf("%w: %s: %q is set a second time (first in line %d)", ErrConfig, at(name), key, first)
		}
		seen[key] = name.Line
		field := slices.IndexFunc(fields, func(f settings.Field) bool { return f.Key == key })
		section := slices.ContainsFunc(fields, func(f settings.Field) bool { return strings.HasPrefix(f.Key, key+".") })
		switch {
		case field < 0 && !section:
			near, _ := Nearest(key, keysAndSections(fields))
			return fmt.Errorf("%w: %s: unknown key %q; did you mean %q? ('sluice config show' lists all)", ErrConfig,
				at(name), key, near)
		case value.Tag == "!!null": // "key:" with nothing after it leaves the default
		case section:
			if err := mergeMapping(path, value, key+".", fields, seen, merge); err != nil {
				return err
			}
		case fields[field].Pairs() && value.Kind == yaml.MappingNode:
			text, err := pairsOf(value)
			if err != nil {
				return fmt.Errorf("%w: %s: %q: %w", ErrConfig, at(value), key, err)
			}
			if err := merge(fields[field], text, Origin(at(name))); err != nil {
				return err
			}
		case value.Kind != yaml.ScalarNode:
			return fmt.Errorf("%w: %s: %q wants one value", ErrConfig, at(value), key)
		default:
			if err := merge(fields[field], value.Value, Origin(at(name))); err != nil {
				return err
			}
		}
	}
	return nil
}

// pairsOf writes a mapping as flags and variables have it: NAME=VALUE,NAME=VALUE.
func pairsOf(n *yaml.Node) (string, error) {
	var list []string
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch {
		case value.Kind != yaml.ScalarNode:
			return "", fmt.Errorf("%q wants one value", name.Value)
		case strings.ContainsAny(name.Value, ",="), strings.Contains(value.Value, ","):
			return "", fmt.Errorf("%q: %q holds a comma or, in the name, an equals sign", name.Value, value.Value)
		case seen[name.Value]:
			return "", fmt.Errorf("%q is there twice", name.Value)
		}
		seen[name.Value] = true
		list = append(list, name.Value+"="+value.Value)
	}
	return strings.Join(list, ","), nil
}

func keysAndSections(fields []settings.Field) (names []string) {
	for _, f := range fields {
		names = append(names, f.Key)
		if section, _, ok := strings.Cut(f.Key, "."); ok {
			names = append(names, section)
		}
	}
	return names
}

// mergeEnv reads SLUICE_* variables. One that resembles a setting's is a typing error and refused; others
// (SLUICE_CACHE, and variables of scripts) are only listed. An empty variable counts as not set.
func mergeEnv(env []string, fields []settings.Field, merge merger) (unused []string, err error) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = Env(f.Key)
	}
	for _, e := range env {
		name, text, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envPrefix+"CONFIG" || text == "" {
			continue
		}
		if i := slices.Index(names, name); i >= 0 {
			if err := merge(fields[i], text, Origin(name)); err != nil {
				return nil, err
			}
			continue
		}
		if own(name) {
			continue
		}
		if near, distance := Nearest(name, names); distance <= 2 {
			return nil, fmt.Errorf("%w: unknown variable %s; did you mean %s?", ErrConfig, name, near)
		}
		unused = append(unused, name)
	}
	slices.Sort(unused)
	return unused, nil
}

// own reports whether a variable is read elsewhere in this program or its tests: for the cache, the GPU driver, the
// Python that fetches models, and by benchmarks, tests and llama.cpp's own kernels.
func own(name string) bool {
	switch name = strings.TrimPrefix(name, envPrefix); name {
	case "CACHE", "CONFIG", "PYTHON", "BIN", "MATMUL", "ATTENTION", "LIBCUDA":
		return true
	}
	return slices.ContainsFunc([]string{"BENCH_", "DEMO_", "TEST_", "STANDIN_"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
