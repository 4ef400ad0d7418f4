"""Reports on studies: compute first, then draw. They read nothing but the folder of runs."""
