package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/test/postgres"
	"github.com/sluice-rag/sluice/internal/test/race"
)

// churnFiles writes versions of a calibration until the process is killed.
func churnFiles(s *Store) error {
	path := filepath.Join(s.Dir(), "calibration", "churn.cal.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	version, err := fileVersion(s)
	if err != nil {
		return err
	}
	for {
		version++
		if err := s.shared.putFile("calibration/churn.cal.json", fileOf(version)); err != nil {
			return err
		}
		if err := s.KeepFiles(context.Background()); err != nil {
			return err
		}
		fmt.Printf("file %d\n", version)
		time.Sleep(20 * time.Millisecond)
	}
}

// fileOf is a file that is not whole if its numbers differ.
func fileOf(version int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%9d\n", version), 2000) }

// fileVersion returns the version of the calibration, 0 without one.
func fileVersion(s *Store) (int, error) {
	b, err := os.ReadFile(filepath.Join(s.Dir(), "calibration", "churn.cal.json"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil || len(b) < 10 {
		return 0, fmt.Errorf("%d bytes: %w", len(b), err)
	}
	v, err := strconv.Atoi(string(bytes.TrimSpace(b[:10])))
	if err == nil && !bytes.Equal(b, fileOf(v)) {
		err = errors.New("the calibration is not whole")
	}
	return v, err
}

// Clients are killed, the server is stopped at once or killed, at random moments while several callers of a client
// ingest, sync, remove, compact and calibrate: the database has what was confirmed, and what was announced whole or not
// at all, and so has the replica, whether it was there or is made anew. SLUICE_POSTGRES_KILLS sets the number (6).
func TestSharedKill(t *testing.T) {
	race.Skip(t)
	rounds := 6
	if v := os.Getenv("SLUICE_POSTGRES_KILLS"); v != "" {
		var err error
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	server := postgres.Start(t)
	root, url := fastDir(t), server.URL()
	t.Setenv(suiteEnv, url)
	m := killed{t: t, dir: filepath.Join(root, "s"), known: newContent(), confirmed: map[string]int{},
		underWay: map[string]int{}, kept: map[string]int{}}
	servers := 0
	for round := range rounds {
		c, _, out := start(t, "churn", m.dir, fmt.Sprint(round))
		if line, err := out.Peek(1); err != nil {
			t.Fatal(line, err)
		}
		work := func() { time.Sleep(time.Duration(rand.Int64N(int64(400 * time.Millisecond)))) }
		work()
		if round%2 == 1 {
			servers++
			if round%4 == 1 {
				server.Kill()
			} else {
				server.Crash()
			}
			server.Run()
			work()
		}
		_ = c.Process.Kill() // it may have ended with ErrAway
		pending := m.replay(out)
		_ = c.Wait()
		dir := m.dir
		if round%3 == 0 {
			dir = filepath.Join(root, fmt.Sprint("new", round))
		}
		s, r := openShared(t, url, dir)
		m.compare(s, pending, round)
		v, err := fileVersion(s)
		if err != nil || v < m.file || v > m.file+1 {
			t.Fatalf("round %d: the calibration has version %d, confirmed was %d: %v", round, v, m.file, err)
		}
		m.file = v
		if err := errors.Join(s.Close(), r.Close()); err != nil {
			t.Fatal(err)
		}
		// What an earlier client has left in its folder becomes what the database has.
		if dir != m.dir {
			s, r := openShared(t, url, m.dir)
			verify(t, s, m.known.chunks)
			if err := errors.Join(s.Close(), r.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d kills of the client and %d of the server, changes confirmed %v, %d calibrations; under way %v, of which "+
		"were there afterwards %v", rounds, servers, m.confirmed, m.file, m.underWay, m.kept)
}
