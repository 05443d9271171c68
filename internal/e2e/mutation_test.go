//go:build native

package e2e

import (
	"bytes"
	"context"
	le "encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
)

// TestDamagedModels asks mutations of a GGUF file: whatever is wrong with it, `ask` ends with exit code 0 or 1, and
// with a sentence where it is 1. SLUICE_MUTATIONS sets how many there are, SLUICE_MUTATION_SEED the first one's number,
// and SLUICE_MUTATION_MODEL a file, "default" for the default model's; the small model of internal/testmodels has the
// same structure: llama's tensors, a vocabulary with scores and types.
func TestDamagedModels(t *testing.T) {
	bin := binary(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	n, first := number(t, "SLUICE_MUTATIONS", 60), number(t, "SLUICE_MUTATION_SEED", 1)
	switch from := os.Getenv("SLUICE_MUTATION_MODEL"); from {
	case "":
		m, _ := generator.Preset("llama-spm")
		if err := generator.Write(path, m); err != nil {
			t.Fatal(err)
		}
	case "default":
		cache, err := fetch.Open("")
		if err != nil {
			t.Fatal(err)
		}
		copyFile(t, cache.Path("models", "SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct.Q4_1.gguf"), path)
	default:
		copyFile(t, from, path)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := mapGGUF(good)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	ended := map[string]int{}
	for i := range n {
		copy(bad, good)
		rng := rand.New(rand.NewPCG(uint64(first+i), 7))
		what, size := layout.mutate(rng, bad)
		if err := os.WriteFile(path, bad[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		how, says := askDamaged(t, bin, dir, path)
		ended[how]++
		if how != "0" && how != "1" || how == "1" && !isSentence(says) {
			t.Errorf("mutation %d, %s: exit %s: %s", first+i, what, how, says)
		}
		if testing.Verbose() {
			t.Logf("mutation %d, %s: exit %s: %.300s", first+i, what, how, says)
		}
	}
	t.Logf("%d mutations, by exit: %v", n, ended)
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Skipf("SKIP: %v", err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// askDamaged returns how `ask` with a model file ended, and what it wrote to standard error.
func askDamaged(t *testing.T, bin, dir, path string) (how, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // other work takes its share
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "ask", "--gate", "closed", "--store", filepath.Join(dir, "none"), "--model",
		path, "--max-tokens", "6", "--threads", "1", "What is a valve, and when does it open?")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SLUICE_CACHE="+filepath.Join(dir, "cache")) // it remembers what was tried
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return "never", stderr.String()
	}
	if err == nil {
		return "0", stderr.String()
	}
	state := cmd.ProcessState
	if state.ExitCode() < 0 {
		return state.String(), stderr.String()
	}
	return strconv.Itoa(state.ExitCode()), stderr.String()
}

// isSentence distinguishes the program's messages from a crash's output.
func isSentence(says string) bool {
	return strings.Contains(says, "sluice: ") && !strings.Contains(says, "goroutine ") &&
		!strings.Contains(says, "SIGABRT") && !strings.Contains(says, "ptrace") && len(says) < 4000
}

// field is a number of a GGUF file, or the text of a string.
type field struct {
	at, size int
	what     string
}

// gguf has the positions of a file's parts.
type gguf struct {
	data    int // where the tensors' data begin
	size    int
	fields  []field
	tokens  []field // texts of the vocabulary
	tensors []field // types of tensors: 4 bytes
}

// cursor walks through a header.
type cursor struct {
	raw []byte
	at  int
	g   *gguf
}

func (c *cursor) number(size int, what string) uint64 {
	var b [8]byte
	copy(b[:], c.raw[c.at:c.at+size])
	c.g.fields = append(c.g.fields, field{c.at, size, what})
	c.at += size
	return le.LittleEndian.Uint64(b[:])
}

func (c *cursor) text(what string) string {
	n := int(c.number(8, what+" (length)"))
	s := string(c.raw[c.at : c.at+n])
	c.g.fields = append(c.g.fields, field{c.at, n, what + " (text)"})
	c.at += n
	return s
}

// width returns the size of a value of a type that has one.
func width(kind uint64) int {
	switch kind {
	case 0, 1, 7:
		return 1
	case 2, 3:
		return 2
	case 4, 5, 6:
		return 4
	}
	return 8
}

func (c *cursor) value(kind uint64, key string) {
	switch kind {
	case 8:
		at := c.at
		s := c.text(key)
		if key == "tokenizer.ggml.tokens" {
			c.g.tokens = append(c.g.tokens, field{at + 8, len(s), s})
		}
	case 9:
		of := c.number(4, key+" (element type)")
		n := c.number(8, key+" (count)")
		kept := len(c.g.fields)
		for range n {
			c.value(of, key)
		}
		if len(c.g.fields) > kept+64 { // the elements of a vocabulary must not be most of what is mutated
			c.g.fields = c.g.fields[:kept+64]
		}
	default:
		c.number(width(kind), key)
	}
}

// damage does one kind of damage to the file at path.
func damage(path, kind string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	g, err := mapGGUF(raw)
	if err != nil {
		return err
	}
	switch kind {
	case "same-token":
		i := 1 // the first two of equal length
		for g.tokens[i].size != g.tokens[i-1].size {
			i++
		}
		a, b := g.tokens[i-1], g.tokens[i]
		copy(raw[b.at:b.at+b.size], raw[a.at:a.at+a.size])
	case "vector-type":
		i := slices.IndexFunc(g.tensors, func(f field) bool { return strings.HasPrefix(f.what, "output_norm.weight") })
		le.LittleEndian.PutUint32(raw[g.tensors[i].at:], 30) // BF16, half as long
	default:
		return fmt.Errorf("no damage %q", kind)
	}
	return os.WriteFile(path, raw, 0o600)
}

func mapGGUF(raw []byte) (*gguf, error) {
	g := &gguf{size: len(raw)}
	c := &cursor{raw: raw, at: 4, g: g}
	c.number(4, "version")
	tensors := c.number(8, "tensor count")
	pairs := c.number(8, "pair count")
	for range pairs {
		key := c.text("key")
		c.value(c.number(4, key+" (type)"), key)
	}
	for range tensors {
		name := c.text("tensor name")
		dims := c.number(4, name+" (dimensions)")
		for range dims {
			c.number(8, name+" (size)")
		}
		g.tensors = append(g.tensors, field{c.at, 4, name + " (type)"})
		c.number(4, name+" (type)")
		c.number(8, name+" (offset)")
	}
	g.data = (c.at + 31) / 32 * 32
	if g.data >= len(raw) || len(g.tokens) == 0 {
		return nil, fmt.Errorf("the model is not as expected: data at %d of %d, %d tokens", g.data, len(raw),
			len(g.tokens))
	}
	return g, nil
}

// mutate damages a file and returns what it did and how much of the file is left.
func (g *gguf) mutate(rng *rand.Rand, raw []byte) (what string, size int) {
	pick := func(list []field) field { return list[rng.IntN(len(list))] }
	put := func(f field, v uint64) string {
		var b [8]byte
		le.LittleEndian.PutUint64(b[:], v)
		copy(raw[f.at:f.at+min(f.size, 8)], b[:])
		return fmt.Sprintf("%s becomes %#x", f.what, v)
	}
	switch rng.IntN(10) {
	case 0: // bytes of the header
		for range 1 + rng.IntN(8) {
			raw[rng.IntN(g.data)] = byte(rng.Uint32())
		}
		return "random bytes in the header", g.size
	case 1: // bytes of the data
		at := g.data + rng.IntN(g.size-g.data)
		for i := at; i < min(at+1+rng.IntN(4096), g.size); i++ {
			raw[i] = byte(rng.Uint32())
		}
		return fmt.Sprintf("random bytes at %d", at), g.size
	case 2: // weights that are not numbers, or huge
		at := g.data + rng.IntN(g.size-g.data)
		fill := []byte{0xff, 0x7f, 0x00}[rng.IntN(3)]
		for i := at; i < min(at+1<<rng.IntN(20), g.size); i++ {
			raw[i] = fill
		}
		return fmt.Sprintf("bytes %#x from %d on", fill, at), g.size
	case 3:
		size := rng.IntN(g.size)
		if rng.IntN(2) == 0 {
			size = rng.IntN(g.data)
		}
		return fmt.Sprintf("cut to %d of %d bytes", size, g.size), size
	case 4, 5: // a number, an extreme one or a near one
		f := pick(g.fields)
		extremes := []uint64{0, 1, 2, math.MaxUint64, math.MaxInt64, math.MaxInt32, math.MaxUint32, 1 << 31, 0x7fc00000,
			0x7f800000, uint64(rng.Uint32()), uint64(rng.IntN(64))}
		return put(f, extremes[rng.IntN(len(extremes))]), g.size
	case 6:
		f := pick(g.fields)
		i := f.at + rng.IntN(max(f.size, 1))
		raw[i] ^= 1 << rng.IntN(8)
		return "a bit of " + f.what, g.size
	case 7: // the same token twice
		a, b := pick(g.tokens), pick(g.tokens)
		for try := 0; (a.size != b.size || a.at == b.at) && try < 10_000; try++ {
			b = pick(g.tokens)
		}
		if a.size == b.size {
			copy(raw[b.at:b.at+b.size], raw[a.at:a.at+a.size])
		}
		return fmt.Sprintf("token %q takes the place of %q", a.what, b.what), g.size
	case 8: // a tensor of another type
		return put(pick(g.tensors), uint64([]int{0, 1, 2, 3, 6, 8, 12, 14, 24, 30}[rng.IntN(10)])), g.size
	}
	f, k := pick(g.tensors), 1+rng.IntN(3) // several tensors, all of one type
	kind := uint64([]int{0, 1, 2, 3, 8, 30}[rng.IntN(6)])
	for range k {
		put(pick(g.tensors), kind)
	}
	return put(f, kind) + fmt.Sprintf(", and of %d more", k), g.size
}
