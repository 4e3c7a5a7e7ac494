package protocol

// LandingRescan is STRESCAN's request.
type LandingRescan struct {
	App, Region string
	Version     int64 // the greatest one that others have written; 0: none
}

// LandingRescan reads STRESCAN's request.
func (r *Request) LandingRescan() (LandingRescan, error) {
	m := storageReader{r: r}
	return LandingRescan{App: m.id("appId"), Region: m.id("regionId"), Version: m.count("version")}, m.err
}

// AppendLandingRescan appends STRESCAN's request.
func AppendLandingRescan(dst []byte, q LandingRescan) []byte {
	return append(appendGiven(appendPlace(append(dst, '{'), q.App, q.Region), "version", q.Version), '}')
}
