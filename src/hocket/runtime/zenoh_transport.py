"""Messages between processes over zenoh, for robots that have it already. Needs the extra `zenoh`.

Listens at the agent's own address and connects to those of the others; nobody is looked for by multicast. Everything
that distinguishes a run (its name, task and deciders) is part of the keys, so that other runs are not heard.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from hashlib import sha256
from typing import Any

from hocket.errors import HocketError, needs_extra
from hocket.runtime.codec import LARGEST_MESSAGE, MessageError
from hocket.runtime.protocol import Message
from hocket.runtime.transport import Transport, split_address


class ZenohTransport(Transport):
    """An agent's connections to all others."""

    session: Any = None

    async def start(self) -> None:
        """Open a session, and listen to what is for this agent."""
        with needs_extra("the transport zenoh", "zenoh"):
            import zenoh
        run = {key: value for key, value in self.greeting.items() if key != "agent"}
        self.root = f"hocket/{sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:32]}"
        self.number = self.numbers[self.agent]
        config = zenoh.Config()
        for key, value in self._config().items():
            config.insert_json5(key, json.dumps(value))
        loop = asyncio.get_running_loop()

        def take(sample: Any) -> None:  # noqa: ANN401 - in a thread of zenoh's
            data = sample.payload.to_bytes()
            sender = str(sample.key_expr).rpartition("/")[2]
            loop.call_soon_threadsafe(self._take, sender, data)

        try:
            self.session = await asyncio.to_thread(zenoh.open, config)
            self.session.declare_subscriber(f"{self.root}/{self.number}/*", take)
        except zenoh.ZError as error:
            raise HocketError(f"cannot listen at {self.addresses[self.agent]}: {str(error)[:200]}") from None

    def _config(self) -> dict[str, object]:
        address, folder = self.addresses[self.agent], self.security.folder
        split_address(address, security=self.security)
        kind = "tcp" if folder is None else "tls"
        others = [f"{kind}/{self.addresses[agent]}" for agent in self.plan.agents if agent != self.agent]
        config: dict[str, object] = {
            "mode": "peer",
            "listen/endpoints": [f"{kind}/{address}"],
            "connect/endpoints": others,
            "connect/exit_on_failure": False,
            "connect/timeout_ms": 0,
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": False,
        }
        if folder is not None:
            self.security.context(self.agent, server=True)  # says what is missing
            certificate, key = str(folder / f"{self.agent}.crt"), str(folder / f"{self.agent}.key")
            config["transport/link/tls"] = {
                "root_ca_certificate": str(folder / "ca.crt"),
                **{f"{side}_certificate": certificate for side in ("listen", "connect")},
                **{f"{side}_private_key": key for side in ("listen", "connect")},
                "enable_mtls": True,
                "verify_name_on_connect": False,
            }
        return config

    def send(self, receiver: int, message: Message) -> None:
        """Send a message; whoever is not there does not get it, and the protocol sends again."""
        if self.session is not None and not self.is_lost():
            self.session.put(f"{self.root}/{receiver}/{self.number}", self.pack(message))

    def _take(self, sender: str, data: bytes) -> None:
        is_agent = sender.isdecimal() and int(sender) < len(self.plan.agents)
        if self.session is not None and is_agent and len(data) <= LARGEST_MESSAGE:
            with suppress(MessageError):
                self.take(int(sender), data)

    async def close(self) -> None:
        """Close the session."""
        session, self.session = self.session, None
        if session is not None:
            await asyncio.to_thread(session.close)
