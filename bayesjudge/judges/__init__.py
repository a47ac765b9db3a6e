"""Running judges: what is asked, how it is read, who asks whom. An optional extra, ``judges``."""
