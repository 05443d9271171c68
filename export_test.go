package sluice

// IndexFrom sets when a picture of the store gets an index.
func (s *Sluice) IndexFrom(rows, searches int) { s.indexRows, s.indexSearches = rows, searches }

// Indexed tells whether the picture in use has an index.
func (s *Sluice) Indexed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snap != nil && s.snap.indexed != nil
}
