package knowledge

import "path/filepath"

// WebFolder is the folder of fetched web pages below the store's folder. It is a separate store, so that the pages do
// not count among the store's contexts (calibration, gate, weights of words, domains).
const WebFolder = "web"

// Web returns the base of the pages of the web that are kept beside this base (rag/web). It uses the same encoder, has
// no calibration, and ends with this base's Close; it is made when it is first asked for. It may hold no store yet.
func (b *Base) Web() *Base {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.web == nil {
		cfg := b.cfg
		cfg.Groups, cfg.Shared = nil, nil
		cfg.Dir = filepath.Join(b.cfg.Dir, WebFolder)
		b.web = New(cfg)
		b.web.closed = b.closed
	}
	return b.web
}
